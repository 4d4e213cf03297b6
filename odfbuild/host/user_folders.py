"""Folders of a user on this machine: settings, and caches (XDG Base Directories)."""

from collections.abc import Mapping
from pathlib import Path


def config_folder(env: Mapping[str, str]) -> Path | None:
    """Return the user's folder of settings: in XDG_CONFIG_HOME, or in ~/.config."""
    return _folder(env, "XDG_CONFIG_HOME", ".config")


def cache_folder(env: Mapping[str, str]) -> Path | None:
    """Return the user's folder of caches: in XDG_CACHE_HOME, or in ~/.cache."""
    return _folder(env, "XDG_CACHE_HOME", ".cache")


def _folder(env: Mapping[str, str], variable: str, name: str) -> Path | None:
    if base := env.get(variable):
        return Path(base) / "odfbuild"
    return Path(env["HOME"]) / name / "odfbuild" if env.get("HOME") else None

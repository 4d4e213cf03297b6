"""The settings of a project: odfbuild.yaml, profiles, policy."""

"""Credentials in texts: their places in a source, and the texts without them.

A URL carries them as user and password or in its query, as signed URLs do; a header as its value.
What is a template (`${{ env.X }}`) is no credential: its value is never in a definition.
While a source is read, its credentials are known: `hiding` blanks them in all that is said of it.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from odfbuild.texts.known_secrets import BLANKED, KNOWN_SECRETS, hidden
from odfbuild.texts.patterns import late_pattern

BLANK = "***"
_NAMES = (
    r"x-(?:amz|goog|oss|cos)-(?:signature|credential|security-token)|sig(?:nature)?|awsaccesskeyid"
    r"|(?:[a-z0-9]+[_-])*(?:token|secret|password|passwd|pwd|apikey|api[_-]?key|access[_-]?key)"
    r"|auth(?:orization)?|credentials?|jwt|session(?:[_-]?id)?|subscription-key|key"
)
_QUERY = late_pattern(rf"([?&;#](?:{_NAMES})=)([^&#;\s\"'<>]+)", re.IGNORECASE)
_USER = late_pattern(  # a password may have a slash in it, and an address one slash too few
    r"([a-z][a-z0-9+.-]*:/{1,3})"
    r"([^/?#\s\"'<>@:]*:(?!\d+/)[^\s\"'<>@]*|[^/?#\s\"'<>@:]+)@",
    re.IGNORECASE,
)
_KNOWN = late_pattern(  # credentials that are known by how they begin
    r"(\b)((?:gh[pousr]_|github_pat_|glpat-|xox[abeoprs]-|xapp-|[sr]k_(?:live|test)_|sk-|hf_|npm_"
    r"|pypi-|dckr_pat_|AIza)[A-Za-z0-9_-]{12,}|(?:AKIA|ASIA)[A-Z0-9]{12,}|eyJ[\w-]{8,}\.eyJ[\w.-]+)"
)
_PATH = late_pattern(  # addresses that are credentials as such
    r"(\bhooks\.slack\.com/(?:services|workflows)/|\bdiscord(?:app)?\.com/api/webhooks/"
    r"|\bapi\.telegram\.org/(?:file/)?bot|\.webhook\.office\.com/)([^\s?#\"'<>]+)",
    re.IGNORECASE,
)
_ESCAPED = late_pattern(r"([?&;#])([A-Za-z0-9_.%-]*%[A-Za-z0-9_.%-]*)(?==)")
_HEADER = late_pattern(
    r"((?:proxy-)?authorization|x-[a-z-]*(?:key|token|auth)[a-z-]*|(?:[a-z-]+-)?(?:api-?)?key|[a-z-]*token"
    r"|(?:set-)?cookie|[a-z-]*(?:secret|password|signature)[a-z-]*)",
    re.IGNORECASE,
)
_SAID = late_pattern(r"\b((?:bearer|basic|token)\s+)([A-Za-z0-9+/=_.~-]{8,})", re.IGNORECASE)
_SCHEME = late_pattern(r"(?:bearer|basic|token)\s+\S+$", re.IGNORECASE)
_LONG_NAMES = (
    r"(?:[a-z0-9]+[_-])*(?:token|secret|password|passwd|pwd|passphrase|credentials?"
    r"|(?:api|access|private|secret)[_-]?key)"
)
_VARIABLE = late_pattern(_LONG_NAMES, re.IGNORECASE)
_OPTION = late_pattern(rf"--?{_LONG_NAMES}(?:=(.+))?", re.IGNORECASE)
_USER_OPTIONS = ("-u", "--user", "--proxy-user")
_AUTHORIZATION = late_pattern(
    r"authorization:\s*(?:(?:bearer|basic|token)\s+|(?!(?:bearer|basic|token)\b))[^\s\"'$]{3,}",
    re.IGNORECASE,
)
_ESCAPE = late_pattern(r"%[0-9A-F]{2}")
_END_OF_BASE64 = re.compile(r"\*\*\*[A-Za-z0-9+/_-]?={1,2}")
_SHORTEST_SECRET = 3
_SHORTEST_PART = 5  # characters of the beginning of a secret that a cut may have left
_LONGEST_CUT = 20_000  # characters of a text that others cut
_CUT_HERE = late_pattern(r"\s{0,8}(?:\.{3}|\u2026)|['\")\].]{0,4}\Z")
_OTHER_CASE = late_pattern("[\u017f\u212a\u0130\u0131]")  # letters that are ASCII in another case
_TEMPLATE = "${{"


@contextmanager
def hiding(secrets: Iterable[str]) -> Iterator[None]:
    """Blank these secrets in what is redacted in the block by its thread, and in its errors.

    A server may send back what it was sent, also as data, which messages repeat.
    """
    secrets = frozenset(secrets)
    before = BLANKED.set(_blanking(secrets) if secrets else None)
    try:
        yield
    except Exception as error:  # one that nobody expected is shown as it is
        error.args = tuple(hidden(each) if isinstance(each, str) else each for each in error.args)
        raise
    finally:
        BLANKED.reset(before)


def keep_hidden(*secrets: str) -> None:
    """Blank these secrets, too, in all that is redacted from now on, and in errors and output."""
    if not KNOWN_SECRETS.secrets.issuperset(secrets):
        KNOWN_SECRETS.secrets |= frozenset(secrets)
        KNOWN_SECRETS.blanked = _blanking(KNOWN_SECRETS.secrets)


def _blanking(secrets: Iterable[str]) -> Callable[[str], str]:
    """Return what returns a text without these secrets, in whatever spelling, and where cut."""
    forms = _forms(secrets)
    return lambda text: _hidden(text, forms) if forms else text


def _hidden(text: str, forms: tuple[str, ...]) -> str:
    """Return a text without these secrets, also where others cut it."""
    text = _blank(text, forms)
    if len(text) <= _LONGEST_CUT:
        for form in forms:
            text = _without_beginning(text, form)
    return text


def secret_parts(url: str) -> Iterator[str]:
    """Yield the credentials that are in a URL, as they are written."""
    url = _plain_names(url)
    for found in _USER.finditer(url):
        user, colon, password = found[2].partition(":")
        part = password if colon else user
        if colon and part and _TEMPLATE not in part:
            yield part
    for form in (_QUERY, _KNOWN, _PATH):
        for found in form.finditer(url):
            if _TEMPLATE not in found[2]:
                yield found[2]


def header_has_secret(name: str, value: str) -> bool:
    """Tell whether a header carries a credential that is in the definition."""
    if _TEMPLATE in value or not value.strip():
        return False
    return bool(
        _HEADER.fullmatch(name.strip()) or _SCHEME.match(value.strip()) or _KNOWN.search(value)
    )


def variable_has_secret(name: str, value: str) -> bool:
    """Tell whether a variable carries a credential that is in the definition."""
    if _TEMPLATE in value or not value.strip():
        return False
    return bool(_VARIABLE.fullmatch(name) or _KNOWN.search(value) or any(secret_parts(value)))


def secret_words(command: Sequence[str]) -> Iterator[int]:
    """Yield which words of a command carry a credential: addresses, headers, values of options.

    What is a template or a variable of a shell is none.
    """
    for at, word in enumerate(command):
        if _TEMPLATE in word or word.startswith("$"):
            continue
        before = command[at - 1] if at else ""
        option, behind = _OPTION.fullmatch(word), _OPTION.fullmatch(before)
        name, colon, value = word.partition(":")
        if (
            any(secret_parts(word))
            or _AUTHORIZATION.search(word)
            or (colon and "$" not in word and " " not in name and header_has_secret(name, value))
            or (option is not None and option[1])
            or (behind is not None and not behind[1] and word and not word.startswith("-"))
            or (before in _USER_OPTIONS and value)
        ):
            yield at


def redacted(text: str) -> str:
    """Return a text without what looks like a credential in it, and what is to be hidden now.

    Templates stay.
    """
    text = hidden(text)
    if "=" in text:
        text = _QUERY.sub(_blanked, _plain_names(text))
    if ":/" in text and "@" in text:
        text = (
            _USER.sub(lambda found: f"{found[1]}{BLANK}@", text) if _TEMPLATE not in text else text
        )
    lower = text.lower()
    if "bearer" in lower or "basic" in lower or "token" in lower:
        text = _SAID.sub(_blanked, text)
    return _PATH.sub(_blanked, _KNOWN.sub(_blanked, text))


def excerpt(text: str, most: int) -> str:
    """Return the beginning of a text, at most so many characters, without credentials.

    They are found before it is cut: a part of one does not look like one.
    """
    text = redacted(text)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def blanked(value: Any) -> Any:
    """Return what JSON has of a definition without its credentials: texts, headers, passwords."""
    match value:
        case str():
            return redacted(value)
        case {"name": str(name), "value": str(text)} if header_has_secret(
            name, text
        ) or variable_has_secret(name, text):
            return {**value, "value": BLANK}
        case Mapping():
            return {
                key: BLANK
                if key == "password" and isinstance(each, str) and _TEMPLATE not in each
                else blanked(each)
                for key, each in value.items()
            }
        case list() | tuple():
            words = value if all(isinstance(each, str) for each in value) else ()
            secret = set(secret_words(words))
            return [BLANK if at in secret else blanked(each) for at, each in enumerate(value)]
    return value


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return a text without these secrets and without what looks like a credential.

    Secrets are found in other letter case, in the spelling of URLs, HTML and JSON, and in base64,
    too; what is too short to be one stays.
    """
    return redacted(_blank(text, _forms(secrets)))


def _plain_names(text: str) -> str:
    """Return a text whose parameters of addresses have names without escapes: `%74oken` is one."""
    return _ESCAPED.sub(lambda found: found[1] + unquote(found[2]), text) if "%" in text else text


def _blanked(found: re.Match[str]) -> str:
    return found[0] if _TEMPLATE in found[2] else f"{found[1]}{BLANK}"


def _forms(secrets: Iterable[str]) -> tuple[str, ...]:
    """Return secrets in all their spellings, the longest first."""
    long = {each for each in secrets if len(each) >= _SHORTEST_SECRET}
    return tuple(
        sorted({form for each in long for form in _spellings(each)}, key=len, reverse=True)
    )


def _blank(text: str, forms: tuple[str, ...]) -> str:
    lower = None if _OTHER_CASE.search(text) else text.lower()
    for form in forms:
        if lower is None or not form.isascii() or form.lower() in lower:
            text = re.sub(re.escape(form), BLANK, text, flags=re.IGNORECASE)
    return _END_OF_BASE64.sub(BLANK, text)


def _without_beginning(text: str, form: str) -> str:
    """Return a text without parts of a secret where somebody cut it: before dots, at its end."""
    lower, form = text.lower(), form.lower()
    if len(form) <= _SHORTEST_PART or len(lower) != len(text):
        return text
    parts, done, at = [], 0, -1
    while (at := lower.find(form[:_SHORTEST_PART], at + 1)) >= 0:
        end = at + _SHORTEST_PART
        while end < len(lower) and end - at < len(form) and lower[end] == form[end - at]:
            end += 1
        if at >= done and _CUT_HERE.match(text, end):
            parts += [text[done:at], BLANK]
            done = end
    return "".join([*parts, text[done:]]) if parts else text


def _spellings(secret: str) -> set[str]:
    """Return a secret as it may come back: for a URL, HTML, JSON, or in base64 at any offset."""
    from base64 import b64encode, urlsafe_b64encode
    from html import escape

    raw = _bytes(secret)
    forms = {secret, quote(raw), quote(raw, ""), quote_plus(raw), unquote(secret)}
    forms |= {_ESCAPE.sub(lambda found: found[0].lower(), each) for each in forms}
    for text in (secret, unquote(secret)):
        in_json, in_html = json.dumps(text, ensure_ascii=False)[1:-1], escape(text)
        forms |= {in_json, in_json.replace("/", "\\/"), json.dumps(text)[1:-1]}
        forms |= {in_html, escape(text, quote=False), in_html.replace("&#x27;", "&#39;")}
        data = _bytes(text)
        for before in range(3):
            whole = b64encode(b"\0" * before + data).decode()
            url_safe = urlsafe_b64encode(b"\0" * before + data).decode()
            start = (0, 2, 3)[before]
            end = len(whole.rstrip("=")) - (1 if (before + len(data)) % 3 else 0)
            forms |= {whole[start:end], url_safe[start:end]}
    return {each for each in forms if len(each) >= _SHORTEST_SECRET}


def _bytes(text: str) -> bytes:
    """Return the bytes of a text, of which some may be no characters."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")

"""Taking secrets out of text at capture: URL credentials, channel tokens, token-like variables, home paths."""

import re
from collections.abc import Iterable

_CREDENTIALS = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)(?P<login>[^\s/@]+)@", re.IGNORECASE)
_CHANNEL_TOKEN = re.compile(r"(?P<start>://[^\s]*?/t/)(?!\$|<)[^/\s]+")
_QUERY_SECRET = re.compile(
    r"(?P<key>[?&](?:[a-z0-9_-]*(?:token|secret|password|passwd|signature|credential|api_?key|auth)[a-z0-9_-]*|sig|pat)=)"
    r"(?!\$)[^&#\s]+",
    re.IGNORECASE,
)
_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|AUTH|COOKIE|SESSION|_PAT$|_PWD$|_KEY$",
    re.IGNORECASE,
)
_ASSIGNMENT = re.compile(r"(?P<name>\b[A-Za-z_]\w*)(?P<sign>[ \t]*[:=][ \t]*)(?!\$)[^\s,{}]+")
# A literal environment variable in place of a login is a name, not a secret.
_PLACEHOLDER = re.compile(r"\$\{?\w+\}?(:\$\{?\w+\}?)?$")

HIDDEN = "<hidden>"


def url(text: str) -> str:
    """`text` without any credential in the URLs that it holds; `${VARIABLES}` in their place are kept."""

    def login(match: re.Match[str]) -> str:
        return match[0] if _PLACEHOLDER.match(match["login"]) else match["scheme"]

    text = _CREDENTIALS.sub(login, text)
    text = _CHANNEL_TOKEN.sub(rf"\g<start>{HIDDEN}", text)
    return _QUERY_SECRET.sub(rf"\g<key>{HIDDEN}", text)


def has_secret(text: str) -> bool:
    """Whether `url` would take something out of `text`."""
    return url(text) != text


def secret_name(name: str) -> bool:
    """Whether an environment variable of this name must not be stored."""
    return _SECRET_NAME.search(name) is not None


def assignments(text: str) -> str:
    """`text` with the values of token-like variables hidden, as in lines of YAML or of a shell."""

    def hide(match: re.Match[str]) -> str:
        return f"{match['name']}{match['sign']}{HIDDEN}" if secret_name(match["name"]) else match[0]

    return _ASSIGNMENT.sub(hide, text)


def folder(text: str, path: str, sign: str) -> str:
    """`text` with a folder's path written as `sign`; longer names that only begin alike are left."""
    return re.sub(rf"{re.escape(path)}(?![\w.-])", lambda match: sign, text) if path in text else text


def text(value: str, homes: Iterable[str] = ()) -> str:
    """`value` without credentials, and with each of the home folders written as `~`."""
    for path in sorted({home.rstrip("/") for home in homes if len(home.rstrip("/")) > 1}, key=len, reverse=True):
        value = folder(value, path, "~")
    return url(value)

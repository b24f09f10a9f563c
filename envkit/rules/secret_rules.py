"""Logins that stand in a file which a team shares. envkit keeps them out of all that it writes; git does not."""

from envkit import redact
from envkit.rules.subject import Findings, Subject, finding


def logins(subject: Subject) -> Findings:
    """Tokens and passwords in the addresses of channels, indexes and pip lines."""
    asked = subject.environment
    following = "put it into netrc or the keyring, or write ${A_VARIABLE} in its place"
    for text in (*asked.channels, *asked.pip_repositories):
        if redact.has_secret(text):
            message = f"the address {text} holds a login"
            yield finding("secret-in-file", "warning", message, text=text, following=following)
    for one in subject.lines:
        # Version control has a finding of its own: vcs-user-in-url.
        if redact.has_secret(one.item.text) and "vcs" not in one.parsed.kind:
            yield finding("secret-in-file", "warning", "this line holds a login", one.item, following=following)


def variables(subject: Subject) -> Findings:
    """Variables whose name says that their value is a secret."""
    for name, value in subject.environment.variables.items():
        if redact.secret_name(name) and value and not value.startswith("$"):
            message = f"the variable {name} looks like a secret"
            yield finding("secret-in-file", "warning", message, text=name, following="set it outside the file")


RULES = (logins, variables)

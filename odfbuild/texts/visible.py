"""Texts of others in one line: control, format and unreadable characters as escapes."""


def visible(text: str) -> str:
    """Return a text with each sign that cannot be printed, ends of lines too, as its escape."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)

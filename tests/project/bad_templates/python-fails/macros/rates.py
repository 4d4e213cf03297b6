def code(text, at):
    return text[at]

def code(text:
    return text

def code(text):
    return set(text)

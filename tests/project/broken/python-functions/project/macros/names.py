def suffix(text):
    return text.uper()

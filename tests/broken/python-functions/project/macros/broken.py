def suffix(text:

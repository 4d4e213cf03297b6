def money(name: str) -> str:
    return f"{name} DECIMAL(18,2)"

"""Programs and containers that steps run: their limits, their confinement, interruption."""

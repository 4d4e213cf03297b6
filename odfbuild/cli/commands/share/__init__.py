"""Commands that share datasets: repositories, transfers, signatures, a server."""

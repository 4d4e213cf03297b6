"""Language server: what an editor shows of a project while its definitions are written."""

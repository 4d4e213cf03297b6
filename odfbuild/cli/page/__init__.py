"""A graph of datasets as one file of HTML: its layout, its data, and the page around them."""

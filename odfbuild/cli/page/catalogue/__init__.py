"""The catalogue of a project as one file of HTML: list, pages of datasets, graph, plan, run."""

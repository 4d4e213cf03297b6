"""The project in which the mistakes are made: two roots, three derivatives, built once."""

from tests.mistakes.mistake import Files

__all__ = ["FILES", "of_orders"]

SETTINGS = """\
odfbuild: 1
name: shop
datasets: [datasets]
"""
ORDERS = """\
kind: DatasetSnapshot
version: 1
content:
  name: orders
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch:
        kind: FilesGlob
        path: orders/*.csv
      read:
        kind: Csv
        header: true
        schema:
          - id INT NOT NULL
          - at TIMESTAMP NOT NULL
          - customer STRING
          - cents BIGINT
      merge:
        kind: Ledger
        primaryKey: [id]
    - kind: SetVocab
      eventTimeColumn: at
"""
CUSTOMERS = r"""kind: DatasetSnapshot
version: 1
content:
  name: customers
  kind: Root
  metadata:
    - kind: SetPollingSource
      fetch:
        kind: FilesGlob
        path: customers/*.csv
        eventTime:
          kind: FromPath
          pattern: (\d{4}-\d{2}-\d{2})
      read:
        kind: Csv
        header: true
        schema:
          - customer STRING NOT NULL
          - city STRING
      merge:
        kind: Snapshot
        primaryKey: [customer]
"""
DERIVATIVE = """\
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Derivative
  metadata:
    - kind: SetTransform
      inputs:
        - datasetRef: orders
          alias: o
      transform:
        kind: Sql
        engine: spark
        query: |
          {query}
    - kind: SetVocab
      eventTimeColumn: at
"""
BIG = "select at, id, customer, cents from o where cents >= 0"
LATEST = "select at, id, customer, cents from o"
FILES: Files = {
    "odfbuild.yaml": SETTINGS,
    "datasets/orders.yaml": ORDERS,
    "datasets/customers.yaml": CUSTOMERS,
    "datasets/big.yaml": DERIVATIVE.format(name="big", query=BIG),
    "datasets/latest.yaml": DERIVATIVE.format(name="latest", query=LATEST),
    "orders/2024-01-01.csv": "id,at,customer,cents\n"
    "1,2024-01-01T10:00:00Z,ann,500\n2,2024-01-01T11:00:00Z,bob,700\n",
    "customers/2024-01-01.csv": "customer,city\nann,Oslo\nbob,Gent\n",
}


def of_orders(query: str) -> Files:
    """Return the files of a new derivative of the orders, which its query knows as `o`."""
    lines = "\n          ".join(query.split("\n"))
    return {"datasets/new.yaml": DERIVATIVE.format(name="new", query=lines)}

"""Settings of projects that are right, by what they show."""

__all__ = ["FULL", "GOOD"]

FULL = """\
odfbuild: 1
name: markets
datasets: [datasets, ./more/]
vars:
  region: {type: string, enum: [eu, us], default: eu}
  start: {type: date, default: 2024-01-01}
  pairs: {type: map, default: {eur: EUR/USD}}
env: [REGION]
defaults:
  "*": {tags: [all]}
  path:datasets/rates: {tags: [rates], owner: markets-team, on_query_change: restate}
  kind:root: {bad_rows: divert, max_bad_rows: 5%, watermark_lag: 1 day}
generate:
  rates:
    template: datasets/rates/rate.yaml.j2
    for_each: {eur: {pair: EUR/USD}, gbp: {pair: GBP/USD}}
    name: "org.example.rates.{{ each.key }}"
  weather:
    template: ./datasets/w.yaml.j2
    matrix: {country: [ca, de], kind: [temp, rain]}
    exclude: [{country: de, kind: rain}]
    name: "org.example.{{ kind }}.{{ country }}"
  stations: {template: datasets/s.yaml.j2, from: data/stations.csv, key: id}
  list: {template: datasets/l.yml.j2, for_each: [{id: a, x: 1}, {id: 2}], key: id}
macros: {python: true}
moved:
  - {from: org.example.old, to: org.example.new}
  - {from: org.example.new, to: me/newer}
accept:
  - {code: ODF201, dataset: a.b, column: fee, until: 2026-12-31, reason: nobody reads it}
  - {code: ODF201, dataset: a.b, until: 2026-12-31}
gates: {breaking: warn, ODF204: off, ODF301: error, max_restated_rows: 0}
pools: {default: 4, rate-limited-api: 1}
selectors:
  nightly: "tag:daily+ --exclude tag:heavy"
  both: selector:nightly a,b
packages:
  - {git: "https://example.org/odf-common.git", rev: v1.4.0}
  - {path: ../common, name: ours}
engine: {spark: {memory: 2g, slice_rows: 100000}}
targets:
  dev: {engine: {spark: {master: "local[*]"}}}
  prod: {workspace: ../shared, require_plan_file: true, protect: true}
default_target: prod
openlineage:
  url: http://lineage.example.org:5000/base
  endpoint: api/v2/lineage
  token_env: LINEAGE_TOKEN
  namespace: markets-prod
repositories:
  hub:
    url: "odf+https://hub.example.org"
    trust: signed
    witnesses: ["did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw"]
  lake: {url: "s3://bucket/prefix/", region: eu-central-1}
  usb: {url: "file:///media/usb", trust: any}
  web: {url: "https://data.example.org/odf"}
  mirror: {url: "ipns://data.example.org", gateway: "https://ipfs.example.org"}
"""

GOOD = {
    "shortest": "odfbuild: 1\n",
    "full": FULL,
    "empty sections": """\
odfbuild: 1
vars:
env:
defaults: {x: }
generate:
macros:
moved:
accept:
gates:
pools:
selectors:
packages:
engine:
targets: {dev: }
""",
    "variable of each type": """\
odfbuild: 1
vars:
  a: {type: string}
  b: {type: int, enum: [1, 2]}
  c: {type: number, default: 2}
  d: {type: bool, default: false}
  e: {type: date, enum: [2024-02-29]}
  f: {type: list, default: []}
  g: {type: map, default: {x: [null, 1.5]}}
""",
}

select
  t,
  id,
  fee * 2 as fee
from trades

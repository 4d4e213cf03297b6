select
  t,
  id,
  fee
from trades

select date,
  price
frum rates

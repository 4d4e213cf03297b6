select *
from rates
union all
select * from trades

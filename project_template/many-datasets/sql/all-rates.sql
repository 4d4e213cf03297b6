select day, 'EUR' as currency, rate from eur
union all
select day, 'GBP' as currency, rate from gbp

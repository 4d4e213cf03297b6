select 'Börse' as place from rates

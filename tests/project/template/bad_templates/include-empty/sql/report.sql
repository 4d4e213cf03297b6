select * from rates

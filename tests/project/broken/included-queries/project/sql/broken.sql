-- prices by day
select date,
       price
form rates

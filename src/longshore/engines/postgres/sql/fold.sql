-- fold: put rows of the tally together. most rows
select longshore.fold($1)

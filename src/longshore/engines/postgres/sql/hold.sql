-- hold: keep these jobs where they are until the transaction ends; what was locked for it. ids
select * from longshore.hold($1)

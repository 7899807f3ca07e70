-- expire: take jobs past their retention out of the finished; the spans that were. They are to
-- be forgotten in the same transaction. state, last moment, most jobs
select segment, lo, hi, size, mask from longshore.expire($1, $2, $3, null)

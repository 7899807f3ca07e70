-- forget: remove all that is left of jobs whose spans are gone. segments, los, his, masks
select longshore.forget($1, $2, $3, $4)

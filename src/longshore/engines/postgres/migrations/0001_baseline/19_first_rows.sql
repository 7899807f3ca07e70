-- What a new store begins with.

-- Its first era.
select longshore.current_era();

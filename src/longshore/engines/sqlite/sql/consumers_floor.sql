-- consumers_floor: what every consumer has passed; null when there is none.
select min(position) from longshore_consumer where gone_at is null

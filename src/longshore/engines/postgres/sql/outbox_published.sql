-- outbox_published: mark batches as shipped. clock, positions
select longshore.published($1, $2)

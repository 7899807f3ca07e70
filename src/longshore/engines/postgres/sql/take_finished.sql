-- take_finished: take jobs out of a locked finished span. span, ordinals
select longshore.take_finished($1, $2)

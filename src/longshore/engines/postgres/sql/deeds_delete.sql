-- deeds_delete: forget what is chained. numbers
delete from longshore.deed d where d.number = any ($1::bigint[])

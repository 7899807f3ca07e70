-- consumer_delete: forget one. name
delete from longshore.consumer where name = $1 returning name

-- deeds_delete: forget what is chained. One writer: nothing older can appear. :number
delete from longshore_deed where number <= :number

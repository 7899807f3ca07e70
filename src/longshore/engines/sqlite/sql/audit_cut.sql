-- audit_cut: forget the entries up to a number. :number
delete from longshore_audit where number <= :number

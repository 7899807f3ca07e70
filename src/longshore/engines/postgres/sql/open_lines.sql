-- open_lines: let in what rates of keys let in by now; how many jobs. clock, most lines
select longshore.open_lines($1, $2)

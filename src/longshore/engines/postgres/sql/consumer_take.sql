-- consumer_take: take a consumer's cursor; nothing while another has it. clock, name, holder, lease
select token, position, gone_at from longshore.take_cursor($1, $2, $3, $4)

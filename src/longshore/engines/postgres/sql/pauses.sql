-- pauses: what is not handed out; an empty string stands for any.
select queue, type from longshore.pause order by queue, type

-- pauses: everything that is paused; an empty string stands for any.
select queue, type from longshore_pause

-- hold_tellers: the sessions that told before this moment how jobs of theirs ended. They stay as
-- they are until the transaction ends; one that is busy is passed over. last moment
select s.token from longshore.session s
 where s.token in (select j.token from longshore.journal j where j.at <= $1)
 order by s.token for share skip locked

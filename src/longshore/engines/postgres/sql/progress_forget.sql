-- progress_forget: a job that begins anew has not said anything. segment, ordinal
delete from longshore.progress where segment = $1 and ordinal = $2

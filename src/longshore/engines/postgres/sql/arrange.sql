-- arrange: jobs of these segments became ready: those of fair queues go into lanes. segments
select longshore.arrange($1)

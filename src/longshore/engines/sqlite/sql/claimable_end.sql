-- claimable_end: closes the union of claimable parts.
 order by rank, seq limit ?

-- setting_lock: let nobody else change settings until the transaction ends; claims go on.
lock table longshore.setting in share row exclusive mode

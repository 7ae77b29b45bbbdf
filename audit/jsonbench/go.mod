module github.com/nodetrail/nodetrail/audit/jsonbench

go 1.26.0

replace github.com/nodetrail/nodetrail => ../../

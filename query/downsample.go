package query

import (
	"time"

	"tsdbd/meta"
	"tsdbd/query/expr"
	"tsdbd/query/syntax"
)

func (s *session) createDownsample(st *syntax.CreateDownsample) (meta.Command, error) {
	cmd := meta.CreateDownsample{
		Database: st.Database, From: st.From, Into: st.Into, Every: st.Every, Functions: st.Functions, Time: s.opt.Now().UnixNano(),
	}
	if st.Where != nil {
		if _, err := expr.SplitTime(st.Where, time.Time{}, nil); err != nil {
			return nil, err
		}
		cmd.Where = st.Where.String()
	}
	return cmd, nil
}

func (*session) dropDownsample(st *syntax.DropDownsample) (meta.Command, error) {
	return meta.DropDownsample{Database: st.Database, From: st.From, Into: st.Into}, nil
}

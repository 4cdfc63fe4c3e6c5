package org.junit.runner;

import org.junit.runner.notification.RunListener;

public class JUnitCore {
    public native void addListener(RunListener listener);

    public native Result run(Request request);
}

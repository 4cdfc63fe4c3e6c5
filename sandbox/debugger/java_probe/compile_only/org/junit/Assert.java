package org.junit;

public class Assert {
    public static native void assertTrue(boolean condition);
}

package org.testng;

public class Assert {
    public static native void assertTrue(boolean condition);
}

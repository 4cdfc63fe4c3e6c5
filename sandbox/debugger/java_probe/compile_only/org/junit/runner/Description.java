package org.junit.runner;

import java.lang.annotation.Annotation;
import java.util.ArrayList;

public class Description {
    public native ArrayList<Description> getChildren();

    public native boolean isTest();

    public native String getClassName();

    public native String getMethodName();

    public native <T extends Annotation> T getAnnotation(Class<T> type);
}
